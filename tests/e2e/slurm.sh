#!/usr/bin/env bash
# A plan of four ranks on two nodes of a real Slurm, which this script starts on this machine and stops again:
# the losses under `srun --mpi=pmix` are those of `local`, bit for bit. A job that is asked to stop saves a checkpoint and is
# requeued, and goes on from there. And three processes of `srun --mpi=none` meet.
#
#   slurm.sh --bin BIN --work DIR     (DIR receives the plan, logs and the state of Slurm's daemons)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
models=$(cd "$here/../models" && pwd)
tools=$(cd "$here/../../tools" && pwd)
bin= work=
while [ $# -gt 0 ]; do
  case $1 in
    --bin) bin=$(cd "$2" && pwd) ;;
    --work) mkdir -p "$2" && work=$(cd "$2" && pwd) ;;
    *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
  shift 2
done

skip() { echo "[SKIP] $1"; exit 0; }
for program in munged slurmctld slurmd srun sinfo; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
[ "$(id -u)" = 0 ] || skip "Slurm's daemons are started as root"

# Sockets have short names, and munged wants a folder that nobody else can write.
state=$(mktemp -d -t piper-slurm.XXXXXX)
chmod 711 "$state"
started=()        # files that hold the pids of what was started, in the order of stopping

stop_one() {      # pid
  kill "$1" 2>/dev/null || return 0
  for _ in $(seq 50); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null || true
}
stop_all() {
  local file
  for file in "${started[@]}"; do
    [ -s "$file" ] && stop_one "$(cat "$file")"
  done
  # Step daemons whose job was cut off are still in the process table under this configuration's folder.
  local environment
  for environment in /proc/[0-9]*/environ; do
    local pid=${environment#/proc/}
    pid=${pid%/environ}
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = slurmstepd ] && grep -qaF "$state/" "$environment" 2>/dev/null; then
      stop_one "$pid"
    fi
  done
  rm -rf "$state"
}
fail() {
  echo "slurm.sh: $1" >&2
  tail -n 5 "$state"/log/* >&2 2>/dev/null || true
  exit 1
}
trap stop_all EXIT
trap 'exit 1' INT TERM

mkdir "$state"/{munge,log,jobs,tmp.n1,tmp.n2,tmp.n3}
chmod 711 "$state/munge"
head -c 128 /dev/urandom > "$state/munge/key"
chmod 400 "$state/munge/key"
host=$(hostname -s)
port=$((20000 + $$ % 20000 / 8 * 8))

sed "s|@state@|$state|g; s|@mpi@|pmix|" "$here/slurm.conf" > "$state/slurm.conf"
cat >> "$state/slurm.conf" <<CONF
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
NodeName=n[1-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 3))] CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=2000 State=UNKNOWN
PartitionName=test Nodes=n[1-3] Default=YES State=UP MaxTime=5
CONF
export SLURM_CONF=$state/slurm.conf
srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"

started=("$state"/slurmd.n1.pid "$state"/slurmd.n2.pid "$state"/slurmd.n3.pid "$state/slurmctld.pid" "$state/munge/pid")
munged --force --key-file="$state/munge/key" --socket="$state/munge/socket" --pid-file="$state/munge/pid" \
  --log-file="$state/log/munged" --seed-file="$state/munge/seed" --num-threads=1 || fail "munged does not start"
slurmctld -f "$SLURM_CONF" || fail "slurmctld does not start"
for node in n1 n2 n3; do
  slurmd -f "$SLURM_CONF" -N "$node" || fail "slurmd of $node does not start"
done
for _ in $(seq 150); do
  nodes=$(sinfo --noheader --format '%t %D' 2>/dev/null || true)
  [ "$nodes" = "idle 3" ] && break
  sleep 0.1
done
[ "$nodes" = "idle 3" ] || fail "the nodes do not come up: $nodes"

cd "$work"
rm -rf plans ./*.jsonl
cat > strategy.yaml <<'YAML'
piper: 1
model: {batch: 16}
annotate:
  - {tag: PP, starts: ["h.0", "h.1"]}
directives:
  - {op: place, filter: {PP: 0}, devices: [0, 1]}
  - {op: place, filter: {PP: 1}, devices: [2, 3]}
  - {op: replicate, filter: {PP: 0}, devices: [0, 1]}
  - {op: replicate, filter: {PP: 1}, devices: [2, 3]}
schedule: {family: 1f1b, microbatches: 4}
optimizer: {adamw: {lr: 0.01}}
YAML
"$bin/piperc" "$models/tiny_gpt.onnx" --strategy strategy.yaml -o plans
for i in $(seq 400); do printf '%b' "\\x$(printf '%02x' $(((i * 7 + i / 5) % 19)))\\x00"; done > tokens.bin

run=("$bin/piper-run" plans --data tokens.bin --steps 10 --threads 1)
"${run[@]}" --log local.jsonl
# Both nodes have this machine's host name: OpenMPI would share memory segments between them that are not the same.
OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1 \
  timeout 40 srun --mpi=pmix -N2 -n4 "${run[@]}" --log slurm.jsonl || fail "the run under srun failed"

losses() { grep -o '"loss": [^,]*' "$1"; }
[ "$(losses local.jsonl | wc -l)" = 10 ] || fail "local did not log ten losses"
diff <(losses local.jsonl) <(losses slurm.jsonl) || fail "the losses differ"
echo "10 losses of 4 ranks on 2 nodes are those of local"

# The batch script: the first start is stopped by SIGUSR1 and put back into the queue, the second one by its last step.
rm -rf checkpoints batch.jsonl batch.txt
OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1 \
  sbatch --quiet -N2 -n4 --time=5 --job-name=batch --output=batch.txt "$tools/slurm_requeue.sh" "$bin/piper-run" plans --data tokens.bin \
  --threads 1 --checkpoint checkpoints --resume --log batch.jsonl --steps 1000000 || fail "sbatch refuses the batch script"
lines() { cat batch.jsonl 2>/dev/null | wc -l; }
wait_for() {    # what, seconds, command...: until the command succeeds
  local what=$1 turns=$((10 * $2)) turn
  shift 2
  for turn in $(seq "$turns"); do "$@" && return 0; sleep 0.1; done
  cat batch.txt >&2
  fail "$what"
}
ran_on() { [ "$(lines)" -gt "$1" ]; }
job=$(squeue --noheader --name batch --format %i)
wait_for "the job does not train" 40 ran_on 3
scancel --signal=USR1 "$job"
wait_for "the job was not queued again" 40 grep -q "the job is queued again" batch.txt
grep -q "stopped by SIGUSR1 after step" batch.txt || { cat batch.txt >&2; fail "no word about SIGUSR1"; }
before=$(lines)
wait_for "the job does not go on" 60 grep -q "continues after step" batch.txt
wait_for "the job does not train again" 40 ran_on $((before + 3))
scancel "$job"
diff <(losses local.jsonl | head -3) <(losses batch.jsonl | head -3) || fail "the losses of the job differ"
echo "a job that was stopped went on from its checkpoint"

# Without MPI: the processes of a step find each other by its variables, and the data of CPU ranks go over UCX.
timeout 60 srun --mpi=none -N1 -n3 "$bin/tcp_store_processes_test" worker > met || { cat met; fail "no meeting under srun"; }
[ "$(grep -c "of run 'slurm\..* attempt 0: well" met)" = 3 ] || { cat met; fail "not three processes met"; }
timeout 60 srun --mpi=none -N1 -n4 "${run[@]}" --comm mpi > refused 2>&1 && fail "CPU ranks that MPI cannot join were not refused"
grep -q "R0103.*Add --mpi=pmix to srun" refused || { cat refused; fail "no word about --mpi=pmix"; }
echo "3 processes met without MPI"
if timeout 60 srun --mpi=none -N1 -n4 "${run[@]}" --log ucx.jsonl > without_mpi 2>&1; then
  diff <(losses local.jsonl) <(losses ucx.jsonl) || fail "the losses over UCX differ"
  echo "10 losses of 4 ranks over UCX are those of local"
else
  grep -q "R0104.*built without UCX" without_mpi || { cat without_mpi; fail "the run under srun without MPI failed"; }
fi
