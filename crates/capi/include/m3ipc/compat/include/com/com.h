/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_COM_H
#define M3IPC_COMPAT_INCLUDE_COM_COM_H

#include "../../minix/com.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_COM_H */
