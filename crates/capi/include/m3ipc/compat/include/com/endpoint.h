/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_ENDPOINT_H
#define M3IPC_COMPAT_INCLUDE_COM_ENDPOINT_H

#include "../../minix/endpoint.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_ENDPOINT_H */
