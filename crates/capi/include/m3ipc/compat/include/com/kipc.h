/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_KIPC_H
#define M3IPC_COMPAT_INCLUDE_COM_KIPC_H

#include "../../minix/kipc.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_KIPC_H */
