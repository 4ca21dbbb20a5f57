# Compiles one source with the nvcc that it is given, from another directory and with a file of options.
set -e
mkdir -p out
cd out
echo "-DFACTOR=3 '-DNAME=\"a b\"'" > options
"$@" --options-file options -I../include -std=c++20 -DOFF -UOFF -O3 -MD -MF scale.d \
    -gencode arch=compute_90,code=sm_90 -c ../src/scale.cu -o scale.o
test -s scale.o
rm options
