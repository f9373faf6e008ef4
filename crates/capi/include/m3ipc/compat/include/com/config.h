/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_CONFIG_H
#define M3IPC_COMPAT_INCLUDE_COM_CONFIG_H

#include "../../minix/config.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_CONFIG_H */
