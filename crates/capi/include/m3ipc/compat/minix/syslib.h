/* Kernel calls of Minix: requests to its system task, no part of m3ipc. */
#ifndef M3IPC_COMPAT_MINIX_SYSLIB_H
#define M3IPC_COMPAT_MINIX_SYSLIB_H

#include "../../../m3ipc.h"

#endif /* M3IPC_COMPAT_MINIX_SYSLIB_H */
