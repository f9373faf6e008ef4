/*
 * More than one node: declared so that old programs link. Part of m3ipc.h.
 *
 * Every call of this file returns EMOLNOSYS in this release, reads and writes no memory, and never
 * blocks.
 */
#ifndef M3IPC_REMOTE_H
#define M3IPC_REMOTE_H

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Notifies process dst of VM vmid as M3_HARDWARE. Returns EMOLNOSYS. */
int mnx_hdw_notify(int vmid, int dst);

/* Notifies dst in the name of slot src_nr, with the argument value. Returns EMOLNOSYS. */
int mnx_ntfy_value(int src_nr, int dst, int value);

/* Adds node nodeid to VM vmid. Returns EMOLNOSYS. */
int mnx_add_node(int vmid, int nodeid);

/* Removes node nodeid from VM vmid. Returns EMOLNOSYS. */
int mnx_del_node(int vmid, int nodeid);

/* Registers node nodeid under a name, reached by proxy proxy_nr. Returns EMOLNOSYS. */
int mnx_node_up(const char *name, int nodeid, int proxy_nr);

/* Removes node nodeid. Returns EMOLNOSYS. */
int mnx_node_down(int nodeid);

/* Reads the state of node nodeid into info. Returns EMOLNOSYS. */
int mnx_getnodeinfo(int nodeid, m3_node_usr_t *info);

/* Binds endpoint ep of VM vmid to the process name on node nodeid. Returns EMOLNOSYS. */
int mnx_rmtbind(int vmid, const char *name, int ep, int nodeid);

/* Starts to move endpoint ep of VM vmid to another node. Returns EMOLNOSYS. */
int mnx_migr_start(int vmid, int ep);

/* Completes the move: endpoint ep is now process pid of node nodeid. Returns EMOLNOSYS. */
int mnx_migr_commit(int pid, int vmid, int ep, int nodeid);

/* Gives the move up: endpoint ep stays where it is. Returns EMOLNOSYS. */
int mnx_migr_rollback(int vmid, int ep);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_REMOTE_H */
