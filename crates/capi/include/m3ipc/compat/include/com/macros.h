/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_MACROS_H
#define M3IPC_COMPAT_INCLUDE_COM_MACROS_H

#include "../../minix/macros.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_MACROS_H */
