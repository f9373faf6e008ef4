/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_PROXY_STS_H
#define M3IPC_COMPAT_INCLUDE_COM_PROXY_STS_H

#include "../../minix/proxy_sts.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_PROXY_STS_H */
