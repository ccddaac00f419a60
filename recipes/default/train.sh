#!/bin/sh
# The default PRM from public datasets: data, training, ProcessBench. Needs GRADUS (the program), GRADUS_DATA (the datasets); DEVICE is cpu or cuda. What is
# killed goes on where it was when it is started again.
set -eu
: "${GRADUS:=gradus}" "${GRADUS_DATA:?names the folder of datasets}" "${DEVICE:=cpu}"
export GRADUS GRADUS_DATA
[ -e data-out/default/references-half.jsonl.zst ] || OUT=data-out/default sh recipes/default/data.sh
"$GRADUS" models pull smollm2-135m
"$GRADUS" train prm recipes/default/prm.toml -o runs/default-prm --set model.device="$DEVICE"
"$GRADUS" bench processbench "$GRADUS_DATA"/processbench/*.json --adapter runs/default-prm/adapter --device "$DEVICE" -o runs/default-prm/processbench
