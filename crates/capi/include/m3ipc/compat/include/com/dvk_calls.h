/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_DVK_CALLS_H
#define M3IPC_COMPAT_INCLUDE_COM_DVK_CALLS_H

#include "../../minix/dvk_calls.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_DVK_CALLS_H */
