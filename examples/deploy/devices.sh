#!/bin/sh
# Three devices on this machine, each with a store of its own: devices.sh HOST:PORT CA-FILE
set -eu
for client in 0 1 2; do
    fedfleet device --server "$1" --ca "$2" --client "$client" --store "store-$client" &
done
wait
