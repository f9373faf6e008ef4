/* Requests to a device: here there is none. */
#ifndef M3IPC_COMPAT_MINIX_DVK_IOCTL_H
#define M3IPC_COMPAT_MINIX_DVK_IOCTL_H

#include "../../../m3ipc.h"

#endif /* M3IPC_COMPAT_MINIX_DVK_IOCTL_H */
