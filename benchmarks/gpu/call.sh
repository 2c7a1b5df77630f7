#!/bin/sh
# Makes one call of the kit: puts wheels in place where there are some, and looks whether all is there before it begins.
#   sh benchmarks/gpu/call.sh N [DIR]     N: the call; DIR: the folder for its pack
set -e
if [ -d .whl ]; then
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site .whl/*.whl
    export PYTHONPATH=/tmp/site
fi
export PYTHONUNBUFFERED=1
python3 -c 'import msgspec, ncu_report, nvtx, yaml, rich, pandas'
ncu --version
exec python3 -m benchmarks.gpu call "$1" --packs "${2:-gpuprof-gpu-results}"
