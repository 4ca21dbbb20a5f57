#define CAT(a, b, c) a##b##c
#define ASK CAT(__ha, s_inc, lude)
#if ASK(<cfg.h>)
#include <cfg.h>
#endif
