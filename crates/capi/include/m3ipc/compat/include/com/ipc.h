/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_IPC_H
#define M3IPC_COMPAT_INCLUDE_COM_IPC_H

#include "../../minix/ipc.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_IPC_H */
