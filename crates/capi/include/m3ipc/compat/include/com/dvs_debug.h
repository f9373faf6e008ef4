/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_DVS_DEBUG_H
#define M3IPC_COMPAT_INCLUDE_COM_DVS_DEBUG_H

#include "../../minix/dvs_debug.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_DVS_DEBUG_H */
