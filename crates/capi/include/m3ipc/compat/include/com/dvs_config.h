/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_DVS_CONFIG_H
#define M3IPC_COMPAT_INCLUDE_COM_DVS_CONFIG_H

#include "../../minix/dvs_config.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_DVS_CONFIG_H */
