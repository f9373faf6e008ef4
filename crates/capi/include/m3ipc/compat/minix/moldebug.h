/* Trace levels of MOL-IPC: bits of d_dbglvl, which m3ipc ignores. */
#ifndef M3IPC_COMPAT_MINIX_MOLDEBUG_H
#define M3IPC_COMPAT_MINIX_MOLDEBUG_H

#define NODEBUG      0x00000000
#define DBGLVL0      0x00000001
#define GENERIC      0x00000002
#define INTERNAL     0x00000004
#define DBGLVL3      0x00000008
#define DBGLVL4      0x00000010
#define DBGLVL5      0x00000020
#define DBGLVL6      0x00000040
#define DBGLVL7      0x00000080
#define DBGPROCLOCK  0x00000100
#define DBGDCLOCK    0x00000200
#define DBGNODELOCK  0x00000400
#define DBGTASKLOCK  0x00000800
#define DBGMESSAGE   0x00001000
#define DBGCMD       0x00002000
#define DBGVCOPY     0x00004000
#define DBGPARAMS    0x00008000
#define DBGPROC      0x00010000
#define DBGPRIV      0x00020000
#define DBGPROCSEM   0x00040000
#define DBGNODE      0x00080000
#define DBGPROXYLOCK 0x00100000
#define DBGREFCOUNT  0x00200000

/* The kernel traces of the later releases. They do nothing here; use m3 trace instead. */
#define MOLDEBUG(level, ...) ((void)0)

#endif /* M3IPC_COMPAT_MINIX_MOLDEBUG_H */
