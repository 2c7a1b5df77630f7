"""`python -m gpuprof`."""

from gpuprof.cli.main import main

main()
