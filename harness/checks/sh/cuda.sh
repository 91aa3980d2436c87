# The CUDA compatibility package and the compiler.

[ -e /usr/local/cuda/compat/libcuda.so.1 ] && echo compat 1
n=$(command -v nvcc) || n=/usr/local/cuda/bin/nvcc
[ -x $n ] && $n --version
:
