/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_DVS_ERRNO_H
#define M3IPC_COMPAT_INCLUDE_COM_DVS_ERRNO_H

#include "../../minix/dvs_errno.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_DVS_ERRNO_H */
