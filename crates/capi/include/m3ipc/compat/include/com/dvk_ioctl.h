/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_DVK_IOCTL_H
#define M3IPC_COMPAT_INCLUDE_COM_DVK_IOCTL_H

#include "../../minix/dvk_ioctl.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_DVK_IOCTL_H */
