/* The message: see m3ipc/message.h. */
#ifndef M3IPC_COMPAT_MINIX_IPC_H
#define M3IPC_COMPAT_MINIX_IPC_H

#include "../../../m3ipc.h"

#endif /* M3IPC_COMPAT_MINIX_IPC_H */
