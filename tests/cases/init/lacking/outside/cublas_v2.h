#define HANDLE 1
