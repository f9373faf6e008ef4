/* A process: see m3ipc/records.h. */
#ifndef M3IPC_COMPAT_MINIX_PROC_USR_H
#define M3IPC_COMPAT_MINIX_PROC_USR_H

#include "../../../m3ipc.h"

#endif /* M3IPC_COMPAT_MINIX_PROC_USR_H */
