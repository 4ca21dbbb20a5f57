#ifndef FACTOR
#error "the build defines it"
#endif
