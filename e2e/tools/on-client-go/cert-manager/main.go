// cert-manager runs those of cert-manager's own controllers that issue certificates by an authority in a Secret, in one
// namespace, until it is killed: cert-manager KUBECONFIG NAMESPACE.
//
// The program of cert-manager is a module that no other can import. It also brings issuers that ask the Internet. Its only
// caller is e2e/src/testing/cert_manager.rs.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"

	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca" // adds itself to the known issuers
)

// The way of a Certificate: from the decision that one is due, over its key and its request, to its Secret.
var names = []string{
	issuers.ControllerName,
	trigger.ControllerName,
	keymanager.ControllerName,
	requestmanager.ControllerName,
	approver.ControllerName,
	ca.CRControllerName,
	issuing.ControllerName,
	readiness.ControllerName,
	revisionmanager.ControllerName,
}

func run(ctx context.Context, kubeconfig, namespace string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig,
		Namespace:  namespace,
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Second,
		},
	})
	if err != nil {
		return err
	}
	// All controllers of a factory share its informers.
	shared, err := factory.Build("cert-manager")
	if err != nil {
		return err
	}
	ended := make(chan error)
	for _, name := range names {
		made, err := controller.Known()[name](factory)
		if err != nil {
			return err
		}
		go func() { ended <- made.Run(1, ctx) }()
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return errors.Join(errors.New("a controller ended"), <-ended)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatalln("usage: cert-manager KUBECONFIG NAMESPACE")
	}
	log.Fatalln(run(context.Background(), os.Args[1], os.Args[2]))
}
