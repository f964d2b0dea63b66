#!/usr/bin/env bash
# A batch script for Slurm: runs a command, such as piper-run with --checkpoint and --resume, on all tasks of the job, and
# puts the job back into the queue where the command was stopped with a checkpoint (exit status 75). docs/slurm.md.
#
#   sbatch [options of sbatch] tools/slurm_requeue.sh piper-run plans/ --checkpoint DIR --resume ...
#SBATCH --job-name=piper
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
set -uo pipefail

[ $# -gt 0 ] || { echo "slurm_requeue.sh: no command" >&2; exit 2; }
srun --mpi=pmix "$@"
status=$?
if [ $status = 75 ]; then
  echo "slurm_requeue.sh: stopped with a checkpoint, start ${SLURM_RESTART_COUNT:-0}; the job is queued again"
  scontrol requeue "$SLURM_JOB_ID" && exit 0
fi
exit $status
