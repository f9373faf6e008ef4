/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_TYPES_H
#define M3IPC_COMPAT_INCLUDE_COM_TYPES_H

#include "../../minix/types.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_TYPES_H */
