#define FACTOR 1.0f
