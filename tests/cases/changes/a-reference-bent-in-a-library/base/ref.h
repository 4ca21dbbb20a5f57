extern "C" int factor();
#define FACTOR factor()
