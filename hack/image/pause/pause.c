/* The first process of a sandbox: holds its namespaces, reaps what is orphaned
 * into a shared PID namespace, and leaves on SIGTERM or SIGINT. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

int main(void) {
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, 0);
	for (;;) {
		if (sigwait(&set, &sig) != 0)
			continue;
		if (sig != SIGCHLD)
			return 0;
		while (waitpid(-1, 0, WNOHANG) > 0 || errno == EINTR)
			errno = 0;
	}
}
