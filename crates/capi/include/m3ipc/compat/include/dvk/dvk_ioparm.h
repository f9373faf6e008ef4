/* Parameters of requests to a device: here there is none. */
#ifndef M3IPC_COMPAT_INCLUDE_DVK_DVK_IOPARM_H
#define M3IPC_COMPAT_INCLUDE_DVK_DVK_IOPARM_H

#include "../../../../m3ipc.h"

#endif /* M3IPC_COMPAT_INCLUDE_DVK_DVK_IOPARM_H */
