# amd: AMD's driver is loaded and NVIDIA's is not; A = its tool, where it is installed.

A=$(command -v amd-smi) || A=/opt/rocm/bin/amd-smi
amd() { [ -d /sys/module/amdgpu ] && [ ! -e /proc/driver/nvidia/version ]; }
