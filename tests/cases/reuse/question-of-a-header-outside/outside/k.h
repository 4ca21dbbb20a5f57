#if __has_include("cfg.h")
#include "cfg.h"
#endif
