#!/bin/sh
# Makes one call of the kit: puts wheels in place where there are some, and looks whether all is there before it begins.
#   sh benchmarks/gpu/call.sh N [DIR]     N: the call; DIR: the folder for its pack
set -e
refuse() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 3
}
if [ -d .whl ]; then
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site .whl/*.whl
    export PYTHONPATH=/tmp/site
    said=$(python3 -c 'import msgspec, ncu_report, nvtx, yaml, rich, pandas' 2>&1) ||
        refuse "$(echo "$said" | tail -n 1)" "put its wheel into .whl (benchmarks/gpu/README.md)"
fi
export PYTHONUNBUFFERED=1
ncu --version || refuse "ncu is not on PATH" "for example: export PATH=/usr/local/cuda/bin:\$PATH"
exec python3 -m benchmarks.gpu call "$1" --packs "${2:-gpuprof-gpu-results}"
