/* Constants of the later releases. */
#ifndef M3IPC_COMPAT_MINIX_CONST_H
#define M3IPC_COMPAT_MINIX_CONST_H

#include "com.h"

#define BITMAP_32BITS 32
#define MNX_CHAR_BIT  8
#define DVS_RUNNING   0
#define DVS_NO_INIT   (-1)
#define NODE_RUNNING  0
#define USER_ROOT     0
#define MOL_LONG_MAX  2147483647L

#endif /* M3IPC_COMPAT_MINIX_CONST_H */
