/*
 * More than one node: declared so that old programs link. Part of m3ipc.h.
 *
 * This release has one node. mnx_getnodeinfo describes it. Every other call of this file has a
 * meaning only with remote nodes: it returns the code that it names, reads and writes no memory,
 * and never blocks. A call that would return an endpoint returns a code below EMOLERRCODE.
 */
#ifndef M3IPC_REMOTE_H
#define M3IPC_REMOTE_H

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds node nodeid to VM vmid. Returns EMOLNOSYS. */
int mnx_add_node(int vmid, int nodeid);

/* Removes node nodeid from VM vmid. Returns EMOLNOSYS. */
int mnx_del_node(int vmid, int nodeid);

/* Registers node nodeid under a name, reached by proxy proxy_nr. Returns EMOLNOSYS. */
int mnx_node_up(const char *name, int nodeid, int proxy_nr);

/* Removes node nodeid. Returns EMOLNOSYS. */
int mnx_node_down(int nodeid);

/*
 * Reads the state of a node.
 *
 *   nodeid  number of the node; M3_LOCALNODE is this node
 *   info    receives the state. n_name is the name of the host, and n_vms has the VMs below 64 that
 *           the caller may see. Of a node that is not there, n_flags is M3_NODE_FREE.
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLBADNODEID     nodeid is out of range
 *   EMOLADDRNOTAVAIL  info cannot be written
 * Blocks until the daemon answers.
 */
int mnx_getnodeinfo(int nodeid, m3_node_usr_t *info);

/* Binds endpoint ep of VM vmid to the process name on node nodeid. Returns EMOLNONODE. */
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
