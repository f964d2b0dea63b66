#!/bin/sh
# piper-launch as a program: what ranks get, how they end, what is left of them; and piper-run under it.
# Usage: piper_launch_test.sh PIPER_LAUNCH PIPER_RUN WRITE_PLANS [ucx]
set -u
launch=$1 run=$2 write=$3 ucx=${4:-}
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
  [ -z "$text" ] || grep -qF -- "$text" "$dir/out" || { fail "no '$text': $*"; cat "$dir/out"; }
}
# wait_for COMMAND...: until it succeeds, for at most 20 s
wait_for() {
  tries=0
  until "$@" 2> "$dir/waiting"; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { fail "never: $*"; return 1; }
    sleep 0.1
  done
}
# Ended, though whoever it belongs to now may not have asked for its status.
gone() { ! kill -0 "$1" 2> /dev/null || grep -q "^State:.Z" "/proc/$1/status" 2> /dev/null; }
has() { grep -qF -- "$1" "$2"; }

# What ranks get.
expect 0 "" "$launch" -n 3 -- sh -c 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $MASTER_ADDR, attempt $TORCHELASTIC_RESTART_COUNT"'
for rank in 0 1 2; do
  has "$rank of 3, $rank of 3, 127.0.0.1, attempt 0" "$dir/out" || fail "rank $rank was not told who it is"
done
"$launch" -n 2 sh -c 'echo "$MASTER_PORT"' > "$dir/out"
[ "$(sort -u "$dir/out" | wc -l)" = 1 ] && [ "$(sort -u "$dir/out")" -gt 0 ] || { fail "ranks have other ports"; cat "$dir/out"; }
expect 0 "[rank 1] rank 1 says so" "$launch" -n 2 --tag-output sh -c 'echo "rank $RANK says so"'
expect 0 "5 of 6 at first.node:2000" "$launch" -n 2 --nnodes 3 --node-rank 2 --master first.node:2000 \
  sh -c 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"'
[ -n "$(echo typed | "$launch" -n 1 cat)" ] && fail "a rank reads what was meant for piper-launch"

# The first rank that fails says how the run ended; the others are ended.
expect 7 "error[L0103]: rank 1 ended first, with status 7" "$launch" -n 3 sh -c '[ $RANK = 1 ] && exit 7; sleep 100'
expect 137 "rank 2 ended first, with status 137 (SIGKILL)" "$launch" -n 3 sh -c '[ $RANK = 2 ] && kill -9 $$; sleep 100'
expect 5 "  the cause" "$launch" -n 2 sh -c '[ $RANK = 1 ] && { echo "the cause" >&2; exit 5; }; trap "" TERM; echo "a consequence" >&2; sleep 1; exit 6'
[ "$(tail -n 1 "$dir/out")" = "piper-launch: error[L0103]: rank 1 ended first, with status 5" ] || { fail "the cause does not stand last"; cat "$dir/out"; }
# Also one that does not want to, and what it started.
expect 3 "rank 0 ended first" "$launch" -n 2 sh -c '[ $RANK = 0 ] && { sleep 0.5; exit 3; }; trap "" TERM; sleep 1000 & echo $! > '"$dir"'/child; wait; wait; sleep 1000'
wait_for gone "$(cat "$dir/child")"    # what a rank started
expect 0 "" "$launch" -n 1 sh -c 'sleep 1000 & echo $! > '"$dir"'/child'
wait_for gone "$(cat "$dir/child")"    # what a rank started that ended well
# What has left its rank's group, and ignores that it is asked to end, is gone when piper-launch is.
expect 0 "" "$launch" -n 2 sh -c 'setsid sh -c "trap \"\" TERM; echo \$\$ > '"$dir"'/far.$RANK; while :; do sleep 0.1; done" & while [ ! -s '"$dir"'/far.$RANK ]; do sleep 0.05; done'
for rank in 0 1; do gone "$(cat "$dir/far.$rank")" || fail "what rank $rank started in a session of its own is left"; done

# After SIGUSR1 nothing is started again: not where it comes in the pause, nor where a rank had no handler for it.
"$launch" -n 1 --restarts 3 sh -c 'kill -9 $$' sh --checkpoint "$dir/c" > "$dir/out" 2>&1 &
pid=$!
wait_for has "restart 1 of 3" "$dir/out"
kill -USR1 $pid
wait $pid
got=$?
[ $got = 75 ] || { fail "exit $got after SIGUSR1 between two attempts"; cat "$dir/out"; }
"$launch" -n 1 --restarts 3 sh -c 'echo $$ > "$0"; sleep 100' "$dir/unhandled" --checkpoint "$dir/c" > "$dir/out" 2>&1 &
pid=$!
wait_for [ -s "$dir/unhandled" ]
kill -USR1 $pid
wait $pid
got=$?
[ $got = 75 ] && ! has "restart 1" "$dir/out" || { fail "exit $got after SIGUSR1 to a rank without a handler"; cat "$dir/out"; }

# Refusals.
expect 1 "error[L0101]: nothing says how many ranks" "$launch" sh -c true
expect 1 "error[L0102]: there is no program 'no-such-program'" "$launch" -n 1 no-such-program
printf 'no program' > "$dir/text"
chmod +x "$dir/text"
expect 1 "error[L0102]: '$dir/text' does not start" "$launch" -n 2 "$dir/text"
expect 1 "error[L0105]: --restarts wants --checkpoint" "$launch" -n 2 --restarts 1 sh -c true
expect 1 "error[L0104]" sh -c 'ulimit -n 16; exec "$0" -n 20 sleep 100' "$launch"
expect 2 "unknown option '--ranksz'; did you mean '--ranks'" "$launch" --ranksz 3 sh
expect 2 "no program" "$launch" -n 3
expect 2 "" "$launch" -n 0 sh

# start_ranks SCRIPT FLAG...: piper-launch in the background, as $pid, once both ranks have written their ids
start_ranks() {
  script=$1
  shift
  rm -f "$dir"/pid.*
  "$launch" -n 2 "$@" sh -c "$script; echo \$\$ > $dir/pid.\$RANK; while :; do sleep 0.1; done" > "$dir/out" 2>&1 &
  pid=$!
  wait_for [ -s "$dir/pid.0" ] && wait_for [ -s "$dir/pid.1" ]
}
# ends STATUS: what piper-launch ends with
ends() {
  wait $pid
  got=$?
  [ "$got" = "$1" ] || { fail "exit $got instead of $1"; cat "$dir/out"; }
  for rank in 0 1; do gone "$(cat "$dir/pid.$rank")" || fail "rank $rank is left"; done
}
# Signals are passed on.
for name in TERM INT USR1 USR2; do
  start_ranks "trap 'exit 75' $name"
  kill -$name $pid
  ends 75
  has L0103 "$dir/out" && fail "a run that was asked to end is told as a failure"
done
start_ranks "trap '' TERM" --grace 1
kill -TERM $pid
ends 137
# Also to one that is stopped.
start_ranks "trap 'exit 75' TERM"
kill -STOP "$(cat "$dir/pid.1")"
kill -TERM $pid
ends 75
# mpirun ends its ranks by itself, a second after the grace period, and removes what it has made: it is killed ten seconds
# after that period, not at its end. The first script takes as long as mpirun may, the second never ends.
mkdir "$dir/slow" "$dir/endless"
# start_mpirun FOLDER ON_TERM: a script called mpirun under piper-launch, in the background, as $pid
start_mpirun() {
  rm -f "$dir"/pid.*
  printf '#!/bin/sh\ntrap "%s" TERM\necho $$ > %s/pid.0\necho $$ > %s/pid.1\nwhile :; do sleep 0.1; done\n' "$2" "$dir" "$dir" > "$1/mpirun"
  chmod +x "$1/mpirun"
  "$launch" --grace 0.5 "$1/mpirun" -n 2 sh --checkpoint "$dir/c" > "$dir/out" 2>&1 &
  pid=$!
  wait_for [ -s "$dir/pid.1" ]
}
start_mpirun "$dir/slow" "sleep 2; exit 75"
kill -TERM $pid
ends 75
start_mpirun "$dir/endless" ""
kill -TERM $pid
ends 137
# The real one gives its ranks the grace period, and a second.
if command -v mpirun > "$dir/which"; then
  rm -f "$dir"/pid.*
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  "$launch" --grace 4 mpirun --oversubscribe -n 2 sh -c "trap 'sleep 2; echo saved > $dir/saved.\$OMPI_COMM_WORLD_RANK; exit 75' TERM
    echo \$\$ > $dir/pid.\$OMPI_COMM_WORLD_RANK; while :; do sleep 0.1; done" sh --checkpoint "$dir/c" > "$dir/out" 2>&1 &
  pid=$!
  wait_for [ -s "$dir/pid.0" ] && wait_for [ -s "$dir/pid.1" ]
  kill -TERM $pid
  wait $pid
  [ $? = 137 ] && { fail "mpirun was killed"; cat "$dir/out"; }
  for rank in 0 1; do
    [ -s "$dir/saved.$rank" ] || { fail "rank $rank of mpirun had no time to save"; cat "$dir/out"; }
    gone "$(cat "$dir/pid.$rank")" || fail "rank $rank of mpirun is left"
  done
fi
# Nothing is left of a piper-launch that is killed.
start_ranks "trap '' TERM INT HUP"
kill -KILL $pid
wait $pid 2> "$dir/waiting"
for rank in 0 1; do wait_for gone "$(cat "$dir/pid.$rank")"; done

if [ -z "$ucx" ]; then
  echo "[SKIP] piper-run under piper-launch: no UCX"
  [ $failures = 0 ] && echo "all as expected"
  exit $((failures > 0))
fi
# piper-run: as many ranks as the plan has, the bits of one process, whatever the slowness of links.
for plans in pipeline replicas sharded exchanged; do
  "$write" $plans "$dir/$plans" || exit 1
  d=$dir/$plans
  set -- "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 3
  expect 0 "step 3/3" "$@" --save "$d/local.safetensors" --save-gradients "$d/local.grad.safetensors"
  expect 0 "step 3/3" "$launch" "$@" --save "$d/ucx.safetensors" --save-gradients "$d/ucx.grad.safetensors" --link-delay 100
  cmp -s "$d/local.safetensors" "$d/ucx.safetensors" || fail "$plans: local and UCX give other weights"
  cmp -s "$d/local.grad.safetensors" "$d/ucx.grad.safetensors" || fail "$plans: local and UCX give other gradients"
done
d=$dir/pipeline
set -- "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors"
expect 0 "step 3/3" "$launch" --tag-output "$@" --steps 3 --comm ucx
expect 1 "error[R0101]: the plan is for 2 ranks, but 3 processes were launched" "$launch" -n 3 "$@" --steps 3
[ "$(grep -c R0101 "$dir/out")" -le 2 ] || { fail "more than one rank speaks"; cat "$dir/out"; }
expect 1 "R0201" "$launch" "$run" "$d/plans" --load "$d/weights.safetensors"
expect 1 "R0501" "$launch" "$run" "$d/plans" --data "$d/data.safetensors"
"$write" replicas "$d/2"
cp -r "$d/2/plans" "$d/other"
expect 1 "rank 1 read another plan than rank 0" "$launch" -n 2 sh -c 'plans=$1; [ $RANK = 1 ] && plans=$2; shift 2; exec "$0" $plans "$@"' \
  "$run" "$d/plans" "$d/other" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 3
# A rank that is killed in the middle: its status, and none is left.
rm -f "$dir"/pid.*
"$launch" -n 2 sh -c 'echo $$ > '"$dir"'/pid.$RANK; exec "$0" "$@"' "$@" --steps 100000000 --no-stop-on-nan --log "$dir/killed.jsonl" > "$dir/out" 2>&1 &
pid=$!
wait_for [ -s "$dir/killed.jsonl" ]
kill -9 "$(cat "$dir/pid.1")"
ends 137
# A signal to piper-launch ends the run with a word about it.
"$launch" "$@" --steps 100000000 --no-stop-on-nan --log "$dir/ended.jsonl" > "$dir/out" 2>&1 &
pid=$!
wait_for [ -s "$dir/ended.jsonl" ]
kill -INT $pid
wait $pid && fail "a run that was interrupted ended with 0"
has "stopped by SIGINT" "$dir/out" || { fail "no word about SIGINT"; cat "$dir/out"; }

# Started again, a run goes on from its checkpoint: rank 1 dies after step 3 of the first attempt.
expect 0 "step 6/6" "$run" "$d/plans" --data "$d/data.safetensors" --load "$d/weights.safetensors" --steps 6 --save "$dir/whole.safetensors"
cat > "$dir/attempts" <<'SCRIPT'
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exec "$0" "$@" --steps 6
"$0" "$@" --steps 3 || exit 9
[ "$RANK" = 1 ] && kill -9 $$
exit 0
SCRIPT
expect 0 "continues after step 3" "$launch" -n 2 --restarts 2 sh -c "$(cat "$dir/attempts")" "$@" --checkpoint "$dir/c" --every 1 --save "$dir/restarted.safetensors"
has "restart 1 of 2" "$dir/out" || { fail "no word about the restart"; cat "$dir/out"; }
cmp -s "$dir/whole.safetensors" "$dir/restarted.safetensors" || fail "a run that was started again gives other weights"
expect 137 "restart 1 of 1" "$launch" -n 2 --restarts 1 sh -c '[ $RANK = 1 ] && kill -9 $$; sleep 100' --checkpoint "$dir/c"
[ "$(grep -c "error\[L0103\]" "$dir/out")" = 2 ] || { fail "not two attempts"; cat "$dir/out"; }

# SIGUSR1 while ranks meet: rank 0 waits for rank 1, keeps the request, and both end after a step.
handles_user_1() { [ -s "$1" ] && [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$(cat "$1")/status") & 0x200)) != 0 ]; }
cat > "$dir/meeting" <<'SCRIPT'
echo $$ > "$0.$RANK"
while [ "$RANK" = 1 ] && [ ! -e "$0.go" ]; do sleep 0.1; done
exec "$@"
SCRIPT
meet() {
  rm -f "$dir"/meeting.*
  "$launch" -n 2 sh "$dir/meeting" "$@" --steps 100000000 --no-stop-on-nan --checkpoint "$dir/met" > "$dir/out" 2>&1 &
  pid=$!
  wait_for handles_user_1 "$dir/meeting.0"
}
meet "$@"
kill -USR1 "$(cat "$dir/meeting.0")"
touch "$dir/meeting.go"
wait $pid
got=$?
[ $got = 75 ] && ls "$dir/met" | grep -q "^step-" || { fail "exit $got after SIGUSR1 while ranks met"; cat "$dir/out"; ls "$dir/met"; }
# SIGTERM then has nothing to save: whoever started the run starts it again.
rm -rf "$dir/met"
meet "$@"
kill -TERM "$(cat "$dir/meeting.0")"
wait $pid
got=$?
[ $got = 143 ] || { fail "exit $got after SIGTERM while ranks met"; cat "$dir/out"; }

[ $failures = 0 ] && echo "all as expected"
exit $((failures > 0))
