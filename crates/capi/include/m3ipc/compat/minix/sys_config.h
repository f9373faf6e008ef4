/* Limits of a node, under the names of the later releases. */
#ifndef M3IPC_COMPAT_MINIX_SYS_CONFIG_H
#define M3IPC_COMPAT_MINIX_SYS_CONFIG_H

#include "../../../m3ipc.h"

#define _NR_FIXED_TASKS NR_FIXED_TASKS
#define _NR_NODES       NR_NODES
#define _NR_SYSTASKS    NR_SYSTASKS
#define _NR_TASKS       NR_TASKS
#define _NR_PROCS       NR_PROCS
#define _NR_SERVERS     NR_SERVERS
#define _NR_SYS_PROCS   NR_SYS_PROCS
#define _NR_USR_PROCS   NR_USR_PROCS
#define _NR_DCS         NR_DCS
#define _NR_VMS         NR_VMS

#endif /* M3IPC_COMPAT_MINIX_SYS_CONFIG_H */
