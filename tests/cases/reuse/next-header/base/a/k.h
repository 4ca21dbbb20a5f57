#include_next <k.h>
