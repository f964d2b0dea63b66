#!/bin/sh
# piper-run on hand-written plans: the same bits in one process and under mpirun, and what it says and
# returns when a launch or a run goes wrong. Usage: piper_run_test.sh PIPER_RUN WRITE_PLANS [MPIRUN]
set -u
run=$1 write=$2 mpirun=${3:-}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
# expect STATUS TEXT COMMAND...: the command's exit status, and a piece of what it prints
expect() {
  want=$1 text=$2
  shift 2
  "$@" > "$dir/out" 2>&1
  got=$?
  [ "$got" = "$want" ] || { fail "exit $got instead of $want: $*"; cat "$dir/out"; }
  grep -qF -- "$text" "$dir/out" || { fail "no '$text': $*"; cat "$dir/out"; }
}

for plans in pipeline replicas sharded exchanged; do
  "$write" $plans "$dir/$plans" || exit 1
  d=$dir/$plans
  set -- "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 3
  expect 0 "step 3/3" "$run" "$@" --save "$d/local.safetensors" --save-gradients "$d/local.grad.safetensors" --log "$d/local.jsonl"
  expect 0 "step 3/3" "$run" "$@" --save "$d/small.safetensors" --huge-pages off --threads 1
  cmp -s "$d/local.safetensors" "$d/small.safetensors" || fail "$plans: huge pages change the result"
  expect 0 "step 3/3" "$run" "$@" --save "$d/late.safetensors" --link-delay 300,100000000
  cmp -s "$d/local.safetensors" "$d/late.safetensors" || fail "$plans: delayed links change the result"
  [ "$(wc -l < "$d/local.jsonl")" = 4 ] || fail "$plans: the log has not 3 steps and a summary"
  [ -z "$mpirun" ] && continue
  mpi="$mpirun --allow-run-as-root --oversubscribe"
  expect 0 "step 3/3" $mpi -n 2 "$run" "$@" --save "$d/mpi.safetensors" --save-gradients "$d/mpi.grad.safetensors" --link-delay 100
  cmp -s "$d/local.safetensors" "$d/mpi.safetensors" || fail "$plans: local and MPI give other weights"
  cmp -s "$d/local.grad.safetensors" "$d/mpi.grad.safetensors" || fail "$plans: local and MPI give other gradients"
done

cmp -s "$dir/replicas/local.safetensors" "$dir/sharded/local.safetensors" || fail "a shared update changes the weights"
cmp -s "$dir/replicas/local.grad.safetensors" "$dir/sharded/local.grad.safetensors" || fail "a shared update changes the saved gradients"

# A plan that would train wrongly is refused before the first step.
"$write" unsummed "$dir/unsummed" || exit 1
d=$dir/unsummed
set -- "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors"
refuted='[P0636]: rule 8: rank 1 instruction 7 (update by sgd.6 with "update w from 0", on stream "compute"; copy): updates "w" by a gradient with sample 0 missing'
expect 1 "$refuted" "$run" "$@"
[ -z "$mpirun" ] || expect 1 "$refuted" $mpirun --allow-run-as-root --oversubscribe -n 2 "$run" "$@"

# A rank whose machine has another copy of the weights says so; a copy that is cut is refused as well.
"$write" weighted "$dir/weighted" || exit 1
d=$dir/weighted
expect 0 "step 3/3" "$run" "$d/plans" --data "$d/data.safetensors" --steps 3 --save "$dir/own.safetensors"
cmp -s "$dir/pipeline/local.safetensors" "$dir/own.safetensors" || fail "the bundle's own weights train otherwise than --load"
cp -r "$d/plans" "$d/other"
printf x | dd of="$d/other/weights/model.safetensors" bs=1 seek=$(($(wc -c < "$d/plans/weights/model.safetensors") - 1)) conv=notrunc 2> "$dir/out"
changed="other/weights/model.safetensors: damaged or changed by hand: the "
expect 1 "$changed" "$run" "$d/other" --data "$d/data.safetensors" --steps 3
if [ -n "$mpirun" ]; then
  expect 1 "$changed" $mpirun --allow-run-as-root --oversubscribe -n 1 "$run" "$d/plans" --data "$d/data.safetensors" --steps 3 \
    : -n 1 "$run" "$d/other" --data "$d/data.safetensors" --steps 3
  grep -q "P0604.*rank 1" "$dir/out" || { fail "no word about rank 1"; cat "$dir/out"; }
fi
expect 0 "step 3/3" "$run" "$d/other" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 3

d=$dir/pipeline
expect 2 "is not microseconds" "$run" "$d/plans" --link-delay soon
expect 2 "is not microseconds" "$run" "$d/plans" --link-delay 5,0
expect 1 "R0501" "$run" "$d/plans" --data "$d/data.safetensors"
expect 1 "R0201" "$run" "$d/plans" --load "$d/weights.safetensors"
expect 1 "R0106" "$run" "$d/plans" --device cuda
# What MPI cannot join is refused in one line, by rank 0 alone, where MPI is asked for.
expect 1 "[R0103]: torchrun started 2 processes that MPI cannot join" env RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none "$run" "$d/plans" --comm mpi
[ "$(wc -l < "$dir/out")" = 1 ] || { fail "not one line about torchrun"; cat "$dir/out"; }
env RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none "$run" "$d/plans" --comm mpi > "$dir/out" 2>&1 && fail "rank 1 was not refused"
[ -s "$dir/out" ] && { fail "rank 1 speaks, too"; cat "$dir/out"; }
expect 1 "[R0103]: srun started 2 processes that MPI cannot join to one world. Add --mpi=pmix" \
  env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 "$run" "$d/plans" --comm mpi
# Else they meet where the launcher says.
expect 1 "[R0105]: the environment variable MASTER_ADDR is not set" env RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none "$run" "$d/plans"
expect 1 "[R0105]: the environment variables contradict each other: RANK is 7 and WORLD_SIZE is 2" env RANK=7 WORLD_SIZE=2 "$run" "$d/plans"
expect 2 "--steps: '9223372036854775808' is not a whole number of at most 9223372036854775807" "$run" "$d/plans" --steps 9223372036854775808
expect 2 "--seed: '18446744073709551616' is not a whole number of at most" "$run" "$d/plans" --seed 18446744073709551616
expect 2 "--stepz" "$run" "$d/plans" --stepz 3
expect 2 "bundle" "$run"
expect 1 "" "$run" "$d/nothing"
expect 1 "R0601" "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --log "$d/no/such/log"
expect 1 "P0621" "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --save "$d/no/such/file"
# A full disk ends the log, not the training: a warning once, the weights as ever, a status that says so.
full="cannot write the log '/dev/full': No space left on device"
expect 3 "error[R0601]: $full; the log is incomplete" "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 3 \
  --save "$dir/unlogged.safetensors" --log /dev/full
[ "$(grep -c "warning\[R0601\]: $full; the training continues without a log" "$dir/out")" = 1 ] || { fail "not one warning about the log"; cat "$dir/out"; }
cmp -s "$d/local.safetensors" "$dir/unlogged.safetensors" || fail "a log that cannot be written changes the weights"
# So does a pipe whose reader has gone; where that is where messages go, nobody is there for one.
dead="cannot write the log '/dev/stdout': Broken pipe"
set -- "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 3
{ sleep 0.5; "$@" --save "$dir/unread.safetensors" --log /dev/stdout 2> "$dir/out"; echo $? > "$dir/status"; } | :
[ "$(cat "$dir/status")" = 3 ] || { fail "exit $(cat "$dir/status") after the reader of the log has gone"; cat "$dir/out"; }
grep -qF "warning[R0601]: $dead; the training continues without a log" "$dir/out" || { fail "no warning about the reader"; cat "$dir/out"; }
cmp -s "$d/local.safetensors" "$dir/unread.safetensors" || fail "a log that nobody reads changes the weights"
{ sleep 0.5; "$@" --save "$dir/unheard.safetensors" 2>&1; echo $? > "$dir/status"; } | :
[ "$(cat "$dir/status")" = 0 ] || fail "exit $(cat "$dir/status") where nobody reads the messages"
cmp -s "$d/local.safetensors" "$dir/unheard.safetensors" || fail "messages that nobody reads change the weights"
# Which file was cut is said, of several that are mapped.
cp "$d/data.safetensors" "$dir/cut.safetensors"
"$run" "$d/plans" --data "$dir/cut.safetensors" --load "$d/weights.safetensors" --steps 100000000 --no-stop-on-nan --log "$dir/cut.jsonl" > "$dir/out" 2>&1 &
pid=$!
while [ ! -s "$dir/cut.jsonl" ] && kill -0 $pid; do sleep 0.2; done
: > "$dir/cut.safetensors"
wait $pid
got=$?
[ $got = 3 ] || fail "exit $got after the data were cut"
grep -qF "error[R0209]: '$dir/cut.safetensors' was truncated while the run read it" "$dir/out" || { fail "no word about the file that was cut"; cat "$dir/out"; }
# Signals end a run with a message.
"$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 100000000 --no-stop-on-nan > "$dir/out" 2>&1 &
pid=$!
sleep 2
kill -INT $pid
wait $pid
got=$?
[ $got = 3 ] || fail "exit $got after SIGINT"
grep -q "stopped by SIGINT" "$dir/out" || { fail "no word about SIGINT"; cat "$dir/out"; }

if [ -n "$mpirun" ]; then
  mpi="$mpirun --allow-run-as-root --oversubscribe"
  expect 1 "the plan is for 2 ranks, but 3 processes were launched" $mpi -n 3 "$run" "$d/plans" --data "$d/data.safetensors"
  expect 1 "R0201" $mpi -n 2 "$run" "$d/plans" --load "$d/weights.safetensors"
  expect 1 "R0501" $mpi -n 2 "$run" "$d/plans" --data "$d/data.safetensors"
  expect 1 "rank 1 started with other options than rank 0: seed (rank 0: 1, rank 1: 2)" $mpi -n 1 "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --seed 1 \
    : -n 1 "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --seed 2
  expect 1 "rank 1 started with other options than rank 0: --link-delay (rank 0: not given, rank 1: 5,0)" $mpi -n 1 "$run" "$d/plans" \
    --data "$d/data.safetensors" --load "$d/weights.safetensors" \
    : -n 1 "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --link-delay 5
  # A node with another copy of a file, whose last byte differs.
  for file in data weights; do
    cp "$d/data.safetensors" "$dir/data.copy.safetensors"
    cp "$d/weights.safetensors" "$dir/weights.copy.safetensors"
    set -- -n 1 "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" \
      : -n 1 "$run" "$d/plans" --data "$dir/data.copy.safetensors" --load "$dir/weights.copy.safetensors"
    expect 0 "step 2/2" $mpi "$@"
    printf x | dd of="$dir/$file.copy.safetensors" bs=1 seek=$(($(wc -c < "$dir/$file.copy.safetensors") - 1)) conv=notrunc 2> "$dir/out"
    expect 1 "[R0102]: rank 1 started with other options than rank 0: digest of the $file (rank 0: " $mpi "$@"
  done
  expect 3 "error[R0601]: $full; the log is incomplete" $mpi -n 2 "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" \
    --steps 3 --save "$dir/unlogged_mpi.safetensors" --log /dev/full
  cmp -s "$d/local.safetensors" "$dir/unlogged_mpi.safetensors" || fail "under mpirun a log that cannot be written changes the weights"
  cp -r "$d/plans" "$d/other"
  "$write" replicas "$d/2"
  expect 1 "rank 1 read another plan than rank 0" $mpi -n 1 "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" \
    : -n 1 "$run" "$d/2/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors"
else
  echo "[SKIP] MPI part: no mpirun"
fi
[ $failures = 0 ] && echo "all as expected"
exit $((failures > 0))
