/* Call numbers of DVK. */
#ifndef M3IPC_COMPAT_MINIX_DVK_CALLS_H
#define M3IPC_COMPAT_MINIX_DVK_CALLS_H

#include "../../../m3ipc.h"

#define DVK_DCINIT       1
#define DVK_SEND         2
#define DVK_RECEIVE      3
#define DVK_NOTIFY       4
#define DVK_SENDREC      5
#define DVK_RCVRQST      6
#define DVK_REPLY        7
#define DVK_DCEND        8
#define DVK_BIND         9
#define DVK_UNBIND       10
#define DVK_GETPRIV      11
#define DVK_SETPRIV      12
#define DVK_VCOPY        13
#define DVK_GETDCINFO    14
#define DVK_GETPROCINFO  15
#define DVK_RELAY        16
#define DVK_PROXYBIND    17
#define DVK_PROXYUNBIND  18
#define DVK_GETNODEINFO  19
#define DVK_PUT2LCL      20
#define DVK_GET2RMT      21
#define DVK_ADDNODE      22
#define DVK_DELNODE      23
#define DVK_DVSINIT      24
#define DVK_DVSEND       25
#define DVK_GETEP        26
#define DVK_GETDVSINFO   27
#define DVK_PROXYCONN    28
#define DVK_WAIT4BIND    29
#define DVK_MIGRATE      30
#define DVK_NODEUP       31
#define DVK_NODEDOWN     32
#define DVK_GETPROXYINFO 33
#define DVK_WAKEUPEP     34

#define DVK_NR_CALLS     35

#endif /* M3IPC_COMPAT_MINIX_DVK_CALLS_H */
