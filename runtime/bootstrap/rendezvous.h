// Where the processes of a launch meet without MPI, and which device of its node is a rank's: read off the launcher's
// variables. For ranks whose data goes by UCX or by a library of the device (hal/tcp carries what hosts tell each
// other). It opens nothing and resolves no names.
#pragma once

#include "runtime/bootstrap/rank_environment.h"
#include "runtime/hal/tcp/store_address.h"

namespace piper::bootstrap {

// torchrun and piper-launch: MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID and _RESTART_COUNT; the store is torchrun's
// own where TORCHELASTIC_USE_AGENT_STORE says so. The same without torchrun, by MASTER_ADDR and MASTER_PORT alone,
// where the run id is empty. srun: the first host of the step's node list and a port of kFirstPort + [0, kPorts) from
// job and step, or MASTER_ADDR and MASTER_PORT where both are set. R0105 names the variable that is missing or wrong.
// R0103: the launcher gives no address.
Result<hal::StoreAddress> read_rendezvous(const RankEnvironment& environment, const GetVariable& get);
constexpr uint16_t kFirstPort = 20000, kPorts = 10000;  // below the ports that Linux gives to connections

// The rank's index among the ranks of its node: LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID or
// SLURM_LOCALID, the launcher's own first; 0 for one process. Which device that is, is up to who can count them: a
// launcher may show each rank one device alone. R0105: not a number, or none is set.
Result<int32_t> read_local_rank(const RankEnvironment& environment, const GetVariable& get);

// Ranks of the launch on this machine: OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS or LOCAL_WORLD_SIZE; 0 where none of
// them is a number above 0, as under srun.
int ranks_of_node(const GetVariable& get);

// For a node list as Slurm writes it, "gpu[03-05,9],login1": its first host, and whether it has more.
struct NodeList {
  std::string first;
  bool several = false;
};
// R0105: `text`, the value of the variable `name`, is no such list.
Result<NodeList> read_node_list(const char* name, const std::string& text);

}  // namespace piper::bootstrap
