/* What a process waits for: see m3ipc/numbers.h. */
#ifndef M3IPC_COMPAT_MINIX_PROC_STS_H
#define M3IPC_COMPAT_MINIX_PROC_STS_H

#include "../../../m3ipc.h"

#endif /* M3IPC_COMPAT_MINIX_PROC_STS_H */
