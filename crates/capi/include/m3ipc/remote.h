/*
 * More than one node. Part of m3ipc.h.
 *
 * mnx_getnodeinfo and mnx_getproxyinfo inform: about this node, the other nodes of the registry,
 * and the proxy that connects them. The other calls of this file did by hand what the registry and
 * m3-proxy do here. They have no meaning and no effect: each returns the code that it names, reads
 * and writes no memory, and never blocks. A call that would return an endpoint returns a code below
 * EMOLERRCODE. The remarks name what replaces each call.
 */
#ifndef M3IPC_REMOTE_H
#define M3IPC_REMOTE_H

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds node nodeid to VM vmid. Returns EMOLNOSYS: m3 vm create --nodes, and the registry. */
int mnx_add_node(int vmid, int nodeid);

/* Removes node nodeid from VM vmid. Returns EMOLNOSYS: the registry says which nodes a VM has. */
int mnx_del_node(int vmid, int nodeid);

/*
 * Registers node nodeid under a name, reached by proxy proxy_nr. Returns EMOLNOSYS: m3-proxy finds
 * out which nodes it reaches.
 */
int mnx_node_up(const char *name, int nodeid, int proxy_nr);

/* Removes node nodeid. Returns EMOLNOSYS: m3 node leave. */
int mnx_node_down(int nodeid);

/*
 * Reads the state of a node.
 *
 *   nodeid  number of the node; M3_LOCALNODE is this node
 *   info    receives the state. n_vms has the VMs below 64 that run on this node, that the caller
 *           may see, and in which the node has slots. Of this node, n_name is the name of the host,
 *           and n_proxies is M3_NO_PROXIES. Of another node of the registry, n_name is its name
 *           there, n_proxies is nodeid, and n_flags has M3_NODE_ATTACHED, with M3_NODE_SCONNECTED
 *           and M3_NODE_RCONNECTED while its endpoints can be called. Of a node that nobody knows,
 *           n_flags is M3_NODE_FREE. The times and the counts are 0: m3 node ls has them.
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLBADNODEID     nodeid is out of range
 *   EMOLADDRNOTAVAIL  info cannot be written
 * Blocks until the daemon answers.
 */
int mnx_getnodeinfo(int nodeid, m3_node_usr_t *info);

/*
 * Reads the state of the processes that connect this node with another one.
 *
 *   px_nr     number of the pair of proxies: n_proxies of mnx_getnodeinfo
 *   sender    receives the state of the sender
 *   receiver  receives the state of the receiver. Both are m3-proxy, so both records are the same:
 *             p_lpid is its process, p_name its name, p_nodemap and p_proxy the other node, and
 *             p_endpoint M3_NONE
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLBADPROXY      px_nr is the number of no other node
 *   EMOLNOPROXY       no proxy is registered
 *   EMOLADDRNOTAVAIL  a record cannot be written
 * Blocks until the daemon answers.
 */
int mnx_getproxyinfo(int px_nr, m3_proc_usr_t *sender, m3_proc_usr_t *receiver);

/*
 * Binds endpoint ep of VM vmid to the process name on node nodeid. Returns EMOLNONODE: endpoints of
 * other nodes are there as soon as they are bound on their node.
 */
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
