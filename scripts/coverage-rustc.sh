#!/usr/bin/env bash
# Stands before rustc for the crates of the workspace (RUSTC_WORKSPACE_WRAPPER), and makes it add what libFuzzer needs to see
# which code an input reaches. Dependencies are compiled as always, so that they are not built again for `make fuzz`.
exec "$@" -C passes=sancov-module -C codegen-units=1 \
    -C llvm-args=-sanitizer-coverage-level=4 \
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
    -C llvm-args=-sanitizer-coverage-pc-table \
    -C llvm-args=-sanitizer-coverage-trace-compares
