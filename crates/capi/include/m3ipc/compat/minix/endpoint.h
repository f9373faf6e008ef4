/* Endpoint arithmetic: see m3ipc/numbers.h. */
#ifndef M3IPC_COMPAT_MINIX_ENDPOINT_H
#define M3IPC_COMPAT_MINIX_ENDPOINT_H

#include "../../../m3ipc.h"

#endif /* M3IPC_COMPAT_MINIX_ENDPOINT_H */
