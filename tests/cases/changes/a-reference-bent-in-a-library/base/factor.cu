extern "C" int factor() { return 2; }
