/* submit CLIENTS COUNT SECONDS: submits batch jobs through libslurm from so many
 * threads, until COUNT are accepted (0: no bound) or SECONDS are over (0: no bound).
 * Prints how many were accepted, how many refused, and the nanoseconds it took. */
#include <pthread.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_long asked, accepted, refused;
static long count;
static int64_t begun, span;

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int more(void)
{
	if (span > 0 && now() - begun >= span)
		return 0;
	return count == 0 || atomic_fetch_add(&asked, 1) < count;
}

static void *client(void *unused)
{
	char *env[] = {"PATH=/usr/bin:/bin", NULL};
	(void)unused;
	while (more()) {
		job_desc_msg_t job;
		submit_response_msg_t *answer = NULL;
		slurm_init_job_desc_msg(&job);
		job.name = "train";
		job.script = "#!/bin/sh\ntrue\n";
		job.user_id = getuid();
		job.group_id = getgid();
		job.environment = env;
		job.env_size = 1;
		job.work_dir = "/";
		job.std_out = job.std_err = "/dev/null";
		job.min_nodes = job.max_nodes = 1;
		job.num_tasks = 1;
		job.time_limit = 120;
		if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS) {
			if (atomic_fetch_add(&refused, 1) == 0)
				slurm_perror("submit");
			continue;
		}
		slurm_free_submit_response_response_msg(answer);
		atomic_fetch_add(&accepted, 1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t all[64];
	int clients, i;
	if (argc != 4 || (clients = atoi(argv[1])) < 1 || clients > 64) {
		fprintf(stderr, "usage: submit CLIENTS COUNT SECONDS\n");
		return 2;
	}
	count = atol(argv[2]);
	span = atol(argv[3]) * 1000000000;
	slurm_init(NULL);
	begun = now();
	for (i = 0; i < clients; i++)
		pthread_create(&all[i], NULL, client, NULL);
	for (i = 0; i < clients; i++)
		pthread_join(all[i], NULL);
	printf("%ld %ld %lld\n", atomic_load(&accepted), atomic_load(&refused), (long long)(now() - begun));
	return 0;
}
