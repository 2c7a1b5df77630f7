#!/usr/bin/env bash
# Measures the GPU of this machine as `gpuprof characterize` does, and leaves everything in $OUT, one archive included.
#
#   OUT=results benchmarks/characterize_device.sh                    # all stages, about twenty minutes
#   OUT=results benchmarks/characterize_device.sh quick              # one of: environment quick first second counters
#
# It needs CuPy, NVRTC, nvdisasm and gpuprof's own dependencies for $PYTHON; `counters` also needs ncu and the right to
# read counters. Each stage goes on if one before it failed; the exit code is 1 if any did.
set -uo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
out=${OUT:-characterize-results}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
mkdir -p "$out"
failed=0

characterize() {  # NAME OPTIONS…: sheet, log, measured file, samples and page of one run
  local name=$1
  shift
  echo "== $name: gpuprof characterize $*"
  local began=$SECONDS
  if "$python" -m gpuprof characterize "$@" --force -o "$out/$name.measured.yaml" --html "$out/$name.html" \
    >"$out/$name.txt" 2>"$out/$name.log"; then
    echo "   $((SECONDS - began)) s"
  else
    echo "   failed after $((SECONDS - began)) s: $(tail -n 2 "$out/$name.log")"
    failed=1
  fi
  head -n 40 "$out/$name.txt"
}

environment() {
  {
    nvidia-smi -q
    "$python" -m gpuprof doctor
    "$python" -m pip list
  } >"$out/environment.txt" 2>&1 || true
  grep -E "Product Name|Driver Version|CUDA Version|MIG Mode|ECC Mode|Current Power Limit" "$out/environment.txt" || true
}

agreement() {  # two runs on one GPU agree within 2 %
  "$python" - "$out/first.measured.yaml" "$out/second.measured.yaml" <<'PYTHON'
import sys
from pathlib import Path

from gpuprof.characterize.sheet.measured import load_measured
from gpuprof.characterize.sheet.side_by_side import side_by_side

rows = side_by_side(*(load_measured(Path(name)) for name in sys.argv[1:]))
compared = [row for row in rows if row.ratio is not None]
apart = [row for row in compared if row.word != "same"]
print(f"{len(compared) - len(apart)} of {len(compared)} values agree within 2 %")
for row in sorted(apart, key=lambda row: abs(row.ratio - 1), reverse=True):
    print(f"  {row.name}: {row.ratio:.4f} ({row.word})")
PYTHON
}

stage() {
  case $1 in
    environment) environment ;;
    quick) characterize quick --quick ;;
    first) characterize first ;;
    second) characterize second && agreement | tee "$out/agreement.txt" ;;
    counters) characterize counters --quick --verify-counters --only bandwidth --only instruction/ffma-throughput ;;
    *)
      echo "unknown stage $1; there are environment quick first second counters" >&2
      exit 2
      ;;
  esac
}

keep() { tar -czf "$out/characterize.tar.gz" -C "$out" --exclude=characterize.tar.gz . || true; }
trap keep EXIT

for name in "${@:-environment}" $([ $# -eq 0 ] && echo quick first second counters); do
  stage "$name"
done
exit "$failed"
