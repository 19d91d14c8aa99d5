// Runs cert-manager's webhook, controllers or CA injector, with the packages of its Go module. The modules of its own main packages
// are not published; this one has a path below cert-manager's because it imports its internal packages, as they do.
package main

import (
	"context"
	"fmt"
	"os"

	configuration "github.com/cert-manager/cert-manager/internal/apis/config/controller/v1alpha1"
	"github.com/cert-manager/cert-manager/internal/webhook"
	api "github.com/cert-manager/cert-manager/pkg/apis/config/controller/v1alpha1"
	certmanager "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned/scheme"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	logs "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	core "k8s.io/api/core/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/vault"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/venafi"
)

const workers = 5

func main() {
	programs := map[string]func(context.Context, []string) error{
		"webhook": serveWebhook, "controller": runControllers, "cainjector": injectAuthorities,
	}
	ctrl.SetLogger(logs.Log)
	ctx := logs.NewContext(ctrl.SetupSignalHandler(), logs.Log)
	if err := programs[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveWebhook(ctx context.Context, arguments []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ExitOnError)
	options.AddConfigFlags(flags, config)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(logs.Log, *config)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// Runs the controllers that the release enables, with its defaults.
func runControllers(ctx context.Context, arguments []string) error {
	flags := pflag.NewFlagSet("controller", pflag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	namespace := flags.String("cluster-resource-namespace", "", "namespace of the Secrets of ClusterIssuers")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	config := api.ControllerConfiguration{}
	configuration.SetObjectDefaults_ControllerConfiguration(&config)
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         *kubeconfig,
		KubernetesAPIQPS:   *config.KubernetesAPIQPS,
		KubernetesAPIBurst: int(*config.KubernetesAPIBurst),
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: *namespace},
		SchedulerOptions:   controller.SchedulerOptions{MaxConcurrentChallenges: int(*config.MaxConcurrentChallenges)},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 config.CopiedAnnotationPrefixes,
			CertificateRequestMinimumBackoffDuration: config.CertificateRequestMinimumBackoffDuration.Duration.Duration,
			CertificateRequestMaximumBackoffDuration: config.CertificateRequestMaximumBackoffDuration.Duration.Duration,
		},
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range configuration.DefaultEnabledControllers {
		started, err := controller.Known()[name](factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		group.Go(func() error { return started.Run(workers, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return group.Wait()
}

func injectAuthorities(ctx context.Context, arguments []string) error {
	flags := pflag.NewFlagSet("cainjector", pflag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	cluster, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, certmanager.AddToScheme, extensions.AddToScheme, registration.AddToScheme,
	} {
		if err := add(kinds); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(cluster, "cainjector"), ctrl.Options{
		Scheme:  kinds,
		Cache:   cache.Options{ReaderFailOnMissingInformer: true},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&core.Secret{}}}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName:                     true,
			cainjector.CustomResourceDefinitionName:       true,
		},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
