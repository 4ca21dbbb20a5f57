extern "C" int factor() { return 3; }
