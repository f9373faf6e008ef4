/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_PROXY_H
#define M3IPC_COMPAT_INCLUDE_COM_PROXY_H

#include "../../minix/proxy.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_PROXY_H */
