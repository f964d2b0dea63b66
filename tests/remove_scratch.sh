#!/bin/sh
# remove_scratch.sh DIR COMMAND...: the command, whose files in DIR are removed when it has passed. What failed leaves them to be read.
scratch="$1"
shift
"$@" && rm -rf "$scratch"
